"""Who owns a storage root: the owner's record, its lease, and how another comes to own it."""

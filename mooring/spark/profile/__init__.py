"""What flows cost: every fragment measured batch by batch on one quiet site."""

"""The page's own files; `web/app.py` gives them out, `view/frozen_page.py` puts them into a report."""

"""The page's own files; `web/page_files.py` gives them out, `view/frozen_page.py` puts them into a report."""

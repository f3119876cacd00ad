"""What lies in a project's storage, looked at part by part while nothing runs, and changed by nobody."""

"""Examination of a project's storage, part by part, while no run uses it. Changes nothing."""

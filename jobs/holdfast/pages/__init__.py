"""Reports for people: the look of pages and plots, whatever their content."""

"""Reports for people: how a page and its plots look, whatever they tell."""

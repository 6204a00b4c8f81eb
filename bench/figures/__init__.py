"""One module a group of figures; each has `measured()`, which returns them."""

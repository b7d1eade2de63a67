"""Several devices: their ranks started and joined, the mesh they form, what passes between them."""

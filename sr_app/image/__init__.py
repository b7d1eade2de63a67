"""Pictures as NumPy arrays: files, resizing, tiles, scores. Knows no MindSpore."""

"""From folders of pictures to batches of patches. Knows no MindSpore."""

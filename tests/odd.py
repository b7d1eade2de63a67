"""What of the folder `odd` is refused by whoever reads it, and how."""

REFUSED = {
    "bmp_reallybig.bmp": "3000000 x 2000000",
    "bomb.gif": "65535 x 66601",
    "bomb_17000x17000.avif": "damaged",
    "broken.png": "damaged",
    "broken_data_stream.png": "damaged",
    "corrupt_header.jpg": "damaged",
    "text_named.png": "no picture",
    "truncated.gif": "damaged",
    "truncated.jpg": "damaged",
    "truncated.png": "damaged",
    "zero_byte.png": "an empty file",
}

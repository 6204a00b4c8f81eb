"""The encodings of values, one family a file: how each becomes a JSON tree with tags, and how it comes back.

A tagged value is an object whose key "$" names the encoding. Both directions stand side by side in one file.
"""

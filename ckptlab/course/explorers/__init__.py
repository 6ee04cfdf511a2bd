"""The interactive pictures, one file each; `explorer.py` says what they are made of."""

"""What runs beside the user's script: standard library only, Python 3.8 and newer, shipped as one zip file."""

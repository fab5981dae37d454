"""Pictures as inline SVG, built as XML trees so that no text can break out of them.

svg.py makes elements, scale.py maps values to places; timeline.py is the picture of who led when, charts.py what the
clients felt. Colours are classes, defined once in templates/drawing.css for light, dark and print.
"""

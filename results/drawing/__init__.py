"""Pictures as inline SVG, built as XML trees so that all text is escaped.

svg.py creates elements, scale.py maps values to coordinates, timeline.py draws the nodes' states over time, charts.py
the clients' latency and throughput. Colours are CSS classes in templates/drawing.css, for light, dark and print.
"""

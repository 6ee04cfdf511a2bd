"""One colour per concept in the whole course (Okabe and Ito's colour-blind safe set).

Colour is never the only sign: every mark carries its name as well.
"""

WEIGHT = "#0072B2"
KEPT = "#D55E00"
RECOMPUTED = "#009E73"
DISCARDED = "#8C8C8C"
GRADIENT = "#CC79A7"

#!/usr/bin/env python3
"""Renders picture.png, the demo's picture: an evening over hills, with fireworks.

Needs numpy and Pillow. The same numbers come out each time.
"""

import pathlib

import numpy
from PIL import Image

WIDTH, HEIGHT = 480, 320


def blend(picture, colour, weight):
    """Lays `colour` over the picture, as opaque as `weight` says for each pixel."""
    picture += weight[..., None] * (numpy.asarray(colour, float) - picture)


def render():
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    up = 1 - y / HEIGHT

    # The sky, from orange at the horizon to deep blue.
    stops = numpy.array([0.0, 0.35, 0.6, 1.0])
    colours = numpy.array([[255, 190, 110], [240, 120, 95], [105, 70, 130], [18, 22, 60]], float)
    picture = numpy.stack([numpy.interp(up, stops, colours[:, c]) for c in range(3)], axis=-1)

    # The sun and its glow.
    distance = numpy.hypot(x - 350, y - 205)
    blend(picture, (255, 225, 150), 0.7 * numpy.exp(-((distance / 60) ** 2)))
    blend(picture, (255, 244, 205), numpy.clip(24 - distance, 0, 1))

    # Fireworks: sparks on rays that bend down under their weight.
    for centre_x, centre_y, radius, rays, colour in [
        (120, 90, 70, 22, (255, 214, 120)),
        (235, 60, 45, 16, (140, 220, 255)),
        (390, 85, 55, 18, (255, 150, 190)),
    ]:
        for ray in range(rays):
            angle = 2 * numpy.pi * ray / rays
            for step in numpy.linspace(0.25, 1, 12):
                spark_x = centre_x + radius * step * numpy.cos(angle)
                spark_y = centre_y + radius * step * numpy.sin(angle) + 14 * step**2
                spark = numpy.exp(-((x - spark_x) ** 2 + (y - spark_y) ** 2) / (0.6 + 1.8 * step))
                blend(picture, colour, numpy.where(spark > 0.02, spark * (0.35 + 0.65 * step), 0))

    # Four ranges of hills, the nearest the darkest.
    for number, (base, height, colour) in enumerate(
        [(0.36, 0.05, (150, 90, 110)), (0.29, 0.06, (95, 62, 95)), (0.2, 0.06, (52, 42, 75)), (0.1, 0.05, (22, 22, 48))]
    ):
        wave = x / WIDTH * 2 * numpy.pi
        ridge = base + height * (
            0.6 * numpy.sin(wave * (1 + number) + 2.1 * number) + 0.4 * numpy.sin(wave * (3.3 + number) + 1.3 * number)
        )
        blend(picture, colour, numpy.clip((ridge - up) * HEIGHT, 0, 1))

    return numpy.clip(picture + 0.5, 0, 255).astype(numpy.uint8)


if __name__ == "__main__":
    target = pathlib.Path(__file__).with_name("picture.png")
    Image.fromarray(render()).save(target, optimize=True)
    print(f"{target}: {target.stat().st_size} bytes")

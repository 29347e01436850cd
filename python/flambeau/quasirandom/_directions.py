"""The direction numbers of Joe and Kuo (2008), of which Sobol sequences are made.

`directions.bin` has, for each degree s from 1 to 18, the primitive polynomials of that degree over
two elements in ascending order, s - 1 bits each (the outer coefficients are one), and then for each
of them the first s direction numbers m_1 ... m_s without their last bit, which is one: k - 1 bits
of m_k. A degree begins at a whole byte.
"""

from __future__ import annotations

from pathlib import Path

import flambeau
from flambeau import Tensor

BITS = 30
# How many primitive polynomials there are of each degree, and so how many dimensions it gives.
COUNTS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)
DIMENSIONS = 1 + sum(COUNTS)


def _numbers(bits: Tensor) -> Tensor:
    """The number that each row of bits writes, the highest bit first."""
    weights = 2 ** flambeau.arange(bits.shape[-1] - 1, -1, -1)
    return (bits * weights).sum(-1)


def _of_degree(degree: int, data: bytes) -> Tensor:
    """The directions of all dimensions whose polynomials have one degree."""
    count = COUNTS[degree - 1]
    octets = flambeau.tensor(list(data), dtype=flambeau.int64)
    bits = (octets.unsqueeze(1) >> flambeau.arange(7, -1, -1)).bitwise_and(1).reshape(-1)
    inner = bits[: count * (degree - 1)].view(count, degree - 1)
    bits = bits[count * (degree - 1) :][: count * degree * (degree - 1) // 2]
    starts = bits.view(count, degree * (degree - 1) // 2)
    directions = flambeau.zeros(count, BITS, dtype=flambeau.int64)
    place = 0
    for k in range(1, degree + 1):
        odd = 2 * _numbers(starts[:, place : place + k - 1]) + 1
        place += k - 1
        directions[:, k - 1] = odd << (BITS - k)
    for k in range(degree, BITS):
        value = directions[:, k - degree] ^ (directions[:, k - degree] >> degree)
        for j in range(1, degree):
            value = value ^ (directions[:, k - j] * inner[:, j - 1])
        directions[:, k] = value
    return directions


def directions(dimension: int) -> Tensor:
    """The directions of the first dimensions: an integer of 30 bits for each bit of a point's
    number.
    """
    found = [(2 ** flambeau.arange(BITS - 1, -1, -1)).unsqueeze(0)]
    with open(Path(__file__).with_name("directions.bin"), "rb") as file:
        have = 1
        for degree, count in enumerate(COUNTS, 1):
            if have >= dimension:
                break
            size = (count * ((degree - 1) + degree * (degree - 1) // 2) + 7) // 8
            found.append(_of_degree(degree, file.read(size)))
            have += count
    return flambeau.cat(found)[:dimension].contiguous()

"""The arrays that the code passes around, by what they hold.

Shapes are said where an array is used; a number's width is said here, because kernels are compiled for it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
"""Half the memory of `Floats`: where a search reads far more numbers than a cache holds."""
Ints: TypeAlias = NDArray[np.int64]
Ints32: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.uint64]
"""Of 64 bits: the state of a random generator, or a set of up to 64 members."""
Counts32: TypeAlias = NDArray[np.uint32]
Counts16: TypeAlias = NDArray[np.uint16]
Bytes: TypeAlias = NDArray[np.uint8]
Cells: TypeAlias = NDArray[Any]
"""Of an array frame: any number of dimensions, and any kind of number that numpy knows by a fixed width."""

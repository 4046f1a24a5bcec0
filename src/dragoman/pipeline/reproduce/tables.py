"""The tables that can be reproduced, by name."""

from dragoman.pipeline.reproduce.baselines import BASELINES
from dragoman.pipeline.reproduce.learning_curves import CURVES
from dragoman.pipeline.reproduce.rows import Table
from dragoman.pipeline.reproduce.table3 import TABLE3

TABLES: dict[str, Table] = {table.name: table for table in (TABLE3, BASELINES, CURVES)}

"""The tables that can be reproduced, by name."""

from dragoman_paper.tables.baselines import BASELINES
from dragoman_paper.tables.learning_curves import CURVES
from dragoman_paper.tables.rows import Table
from dragoman_paper.tables.table3 import TABLE3

TABLES: dict[str, Table] = {table.name: table for table in (TABLE3, BASELINES, CURVES)}

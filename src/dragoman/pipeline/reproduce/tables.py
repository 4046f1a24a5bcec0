"""The tables that can be reproduced, by name."""

from dragoman.pipeline.reproduce.table3 import TABLE3

TABLES = {table.name: table for table in (TABLE3,)}

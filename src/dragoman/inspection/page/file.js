// The report as a file: its data are in the document.

import { decoded } from "./data.js";
import { show } from "./report.js";

const table = JSON.parse(document.getElementById("inspection").textContent);
const note = "This file contains all its data and loads nothing from a network. ";
show(decoded(table), note + "It contains Preact and htm; their licences are in its source.");

"""What follows from a record or from further calls of the model: attribution, interventions, statistics."""

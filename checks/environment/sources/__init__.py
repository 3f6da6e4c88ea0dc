"""Where the facts come from: one module a kind of source, each a function of a `Machine`; none of them raises."""

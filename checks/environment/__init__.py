"""The machine and its interpreter: facts are collected first (`collect`), every check is a pure function of them."""

"""Studies: one folder per question, with its results and the answer; `romkit study` runs those with
presets.
"""

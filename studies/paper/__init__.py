"""Every number of Adriaens et al. (2026), reproduced by one command and judged: `romkit study
paper`.
"""

"""Reproduction of papers: published and recomputed numbers, claims, theorems, and a page per paper.

tables           YAML files of the published tables, and published.csv
results          our numbers in the cells, and verdicts
theorems         theorems of the papers, evaluated for finished runs
regret_bounds    right-hand sides of regret bounds (Ghari and Shen)
mistake_bounds   right-hand sides of mistake bounds (Jin, Hoi and Yang), and minima in hindsight
omkc             page of a paper without experiments: its algorithms and their bounds
figures          figures of the papers
pages            Markdown pages

    make reproduce-tables                 run all, write the pages
    make table TABLE="jmlr_table1"        run one table and print it
"""

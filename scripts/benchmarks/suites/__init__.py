"""Compare algorithms of omkl with models of other libraries on many streams.

settings    read the settings of a suite from the YAML files in this folder
generators  generate streams that change at known rows
streams     read rows from packages, the catalogue and generators, and add sensor faults
models      define models of other libraries, and run one of them over a stream
scores      compute errors of predictions, and statistics over streams
running     run all learners of a suite
page        write tables and figures of the results
"""

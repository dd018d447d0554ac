"""Description of a job: its fields, job files, options of the command line, and the `core.Job` made of them."""

"""The history of jobs: committed transitions, ended jobs, their pods and the last lines of their logs.

Belongs here: what is recorded (`recorder`, `entries`), the queue and the thread that write it (`store`), the tables and
queries (`tables`, `queries`, schema.sql) and the two databases (`databases`: SQLite, PostgreSQL).
Does not belong here: the API's questions (`cluster_data_source`).
"""

"""The history of jobs: committed transitions, ended jobs, their pods and the last lines of their logs.

Belongs here: what is recorded (`recorder`, `entries`), the queue and the task that write it (`writer`), the queries of
the API (`store`), the thread of a connection (`database_thread`), the tables and statements (`tables`, `queries`,
schema.sql) and the two databases (`databases`: SQLite, PostgreSQL).
Does not belong here: the API's questions (`cluster_data_source`).
"""

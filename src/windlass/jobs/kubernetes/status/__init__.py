"""The status of a job's object, in the terms of its kind.

- `job_status`: the status from the core's status and the pods, with `member_conditions` where pods restart one by one
- `conditions`, `status_times`: conditions that exclude each other, and the times of their changes
- `announcements`: what the Events of a job say
- `clean_up`: pods to delete after the end of a job

The backend writes the status (`backends.kubernetes.status`).
"""

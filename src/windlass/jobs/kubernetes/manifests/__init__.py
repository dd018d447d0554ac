"""Files of manifests: reads them, finds unknown fields, and turns their jobs into pods and dependent objects.

- `manifest_file`: a file and the objects that it becomes; `known_fields`: fields that a kind lacks
- `job_file_objects`, `trainingjob_manifest`: jobs of a job file or of the command line as TrainingJobs
- `own_kinds`: fields of the specs of our own kinds

Single manifests are read by `jobs.kubernetes.kinds.registry`.
"""

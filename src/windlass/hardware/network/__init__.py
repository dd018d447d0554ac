"""Network profiles: what the pods of a job get for a fabric, as tables with sources, and the choice among them.

- `profiles`: the table of profiles and of their variables
- `variables`: settings of NCCL and libfabric that are wrong or obsolete
- `request`: the text of the field `network`, read and written
- `addition`: resources, annotations, capabilities and variables of one pod
- `automatic`: the profile that nodes or devices show
"""

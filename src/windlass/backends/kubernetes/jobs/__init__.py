"""Job controllers: reads the objects of our kinds, follows the gang behind each, commits states into the objects.

- objects to gangs: `job_reader` fills `job_store`; `job_specs` and `job_fit` resolve specs in the cluster;
  `job_reports` reports arrivals, requests and faults
- gangs to pods: `gang_controller` takes commands; `run_control` acts on changed gangs
- states to objects: `job_commits`
"""

"""Kubeflow's own Python clients and kubectl in the hands of a user: every method against our operator.

The operator leads on a real API server with fake kubelets, which serve logs. What the methods return is compared with
the recordings of Kubeflow's operators (`kubeflow_operators/recorded`) where these say it.
"""

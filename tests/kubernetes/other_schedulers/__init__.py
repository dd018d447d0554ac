"""Rendered manifests and jobs of ours under schedulers of others: kube-scheduler's gangs, Kueue, JobSet."""

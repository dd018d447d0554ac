"""The kinds of training jobs, a module each: reading the manifest, and the pods and objects made of it."""

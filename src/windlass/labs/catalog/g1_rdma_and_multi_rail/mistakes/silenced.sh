# refused: a comment that ignores a rule repairs nothing
(echo '# windlass: ignore-file[nccl-net-of-efa, nccl-variable-invented, nccl-variable-removed, socket-interface-local]'
 echo '# windlass: ignore-file[efa-variable-obsolete, efa-without-huge-pages, efa-below-instance]'
 cat pasted.yaml) > silenced.yaml
mv silenced.yaml pasted.yaml

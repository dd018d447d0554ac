# refused: does not keep pretrain from mig
cp "$WINDLASS_LAB_FILES/solution/request.yaml" request.yaml

# The mended jobs run on two nodes of a daemon, one rank each; the letters are upper-case, and the broken jobs are kept.
for name in timeout mismatch memory device interface; do cp $name.py broken_$name.py; cp "$WINDLASS_LAB_FILES/solution/$name.py" .; done
tr a-z A-Z < "$WINDLASS_LAB_FILES/solution/answers.txt" | sed 's/^\([A-Z]*\):/\L\1:/' > answers.txt
windlass up -d --local-nodes 2 --local-gpus 1
for name in timeout mismatch memory device interface; do windlass submit -N 2 -G 1 --name $name -- python $name.py; done
for name in timeout mismatch memory device interface; do windlass logs -f $name; done

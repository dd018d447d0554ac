# refused: put fully_shard back
sed -e '/fully_shard(/d' -e '/for layer in model/,+1d' -e 's/\.to_local() for/ for/' by_hand.py > changed.py
mv changed.py by_hand.py
windlass run --local-gpus 2 -G 2 -- python by_hand.py

package num

// SumBlock and SumLanes fix the order of the canonical sum of squares.
const (
	SumBlock = 4096
	SumLanes = 16
)

// SumSquares returns the canonical sum of squares of x: squares exact in
// float64, blocks of 4,096 elements ascending, in each block 16 lanes where
// lane j sums the elements i = j mod 16 ascending, then lanes halved 8, 4, 2, 1.
func SumSquares(x []float32) float64 {
	total := 0.0
	for len(x) > SumBlock {
		total += SumSquaresBlock(x[:SumBlock])
		x = x[SumBlock:]
	}
	return total + SumSquaresBlock(x)
}

// SumSquaresBlock returns the sum of squares of one block of at most SumBlock
// elements.
func SumSquaresBlock(x []float32) float64 {
	var l [SumLanes]float64
	for len(x) >= SumLanes {
		v := (*[SumLanes]float32)(x)
		for j, f := range v {
			d := float64(f)
			l[j] += float64(d * d)
		}
		x = x[SumLanes:]
	}
	for j, f := range x {
		d := float64(f)
		l[j] += float64(d * d)
	}
	for h := SumLanes / 2; h > 0; h /= 2 {
		for j := range h {
			l[j] += l[j+h]
		}
	}
	return l[0]
}

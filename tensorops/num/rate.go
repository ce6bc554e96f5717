package num

// RateScale is the factor of a learning rate in round r of rounds, counted from 1:
// it falls in a line from 1 in the first round to decay in the last. A decay of 0 or
// 1 leaves the rate as it is.
func RateScale(decay float32, r, rounds uint64) float32 {
	if decay == 0 || decay == 1 || rounds < 2 {
		return 1
	}
	t := float32(min(r, rounds)-1) / float32(rounds-1)
	return 1 - float32(t*(1-decay))
}

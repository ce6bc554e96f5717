package data

import "reflect"

// digits are the images of MNIST; training samples move by chance.
type digits struct {
	*mnist
	crop  int
	train []int
	held  []int
}

// openDigits holds out what is asked for. Where nothing is, the digits are as they
// were published: copies too, in their own order.
func openDigits(d Spec) (Set, error) {
	data, err := openMNIST(d.Path)
	if err != nil {
		return nil, err
	}
	sp, err := newSplitter(d.SplitSpec)
	if err != nil {
		return nil, err
	}
	m := data.(*mnist)
	out := &digits{mnist: m, crop: d.Crop}
	if reflect.DeepEqual(d.SplitSpec, SplitSpec{}) {
		return out, nil
	}
	for i := range m.Len(Train) {
		switch sp.of("", "", m.sample(Train, i)) {
		case Train:
			out.train = append(out.train, i)
		case Valid:
			out.held = append(out.held, i)
		}
	}
	return out, nil
}

func (d *digits) Len(split string) int {
	switch {
	case split == Train && d.train != nil:
		return len(d.train)
	case split == Valid:
		return len(d.held)
	}
	return d.mnist.Len(split)
}

func (d *digits) Batch(split string, idx []int, dst *Batch) error {
	if err := checkIndex(split, idx, d.Len(split)); err != nil {
		return err
	}
	from, of := idx, split
	if list := map[string][]int{Train: d.train, Valid: d.held}[split]; list != nil {
		of, from = Train, make([]int, len(idx))
		for k, i := range idx {
			from[k] = list[i]
		}
	}
	if err := d.mnist.Batch(of, from, dst); err != nil {
		return err
	}
	for k := range idx {
		if d.crop > 0 && len(dst.Keys) > k {
			dy, dx := moves(dst.Keys[k], d.crop)
			shift(dst.Float[k*pixels:][:pixels], Side, Side, 1, dy, dx, shade[0])
		}
	}
	return nil
}

// moves returns two numbers in [-most, most].
func moves(key uint64, most int) (dy, dx int) {
	n := uint64(2*most + 1)
	return int(Mix(key+1)%n) - most, int(Mix(key+2)%n) - most
}

// shift moves an image [h,w,c] and fills with a value.
func shift(x []float32, h, w, c, dy, dx int, fill float32) {
	old := append([]float32(nil), x...)
	for i := range h {
		for j := range w {
			to := x[(i*w+j)*c:][:c]
			if y, z := i+dy, j+dx; y >= 0 && y < h && z >= 0 && z < w {
				copy(to, old[(y*w+z)*c:])
				continue
			}
			for k := range to {
				to[k] = fill
			}
		}
	}
}

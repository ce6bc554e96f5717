package data

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/apiary-net/hived/tensorops/num"
)

// mel turns sound into log energies of bands that are spaced like hearing (Stevens
// et al. 1937, in O'Shaughnessy's form 2595*log10(1+f/700)): [frames, bands].
// Everything is float64 without fusing: the same bits on every machine.
type mel struct {
	rate, frame, hop, frames, bands int
	window, cos, sin                []float64
	filters                         []melFilter
}

// melFilter is a triangle over the bins of a spectrum.
type melFilter struct {
	first   int
	weights []float64
}

func newMel(d Spec) (*mel, error) {
	m := &mel{rate: d.Rate, bands: d.Mels}
	if m.rate == 0 {
		m.rate = 8000
	}
	if m.bands == 0 {
		m.bands = 40
	}
	seconds, hop := d.Seconds, d.Hop
	if seconds == 0 {
		seconds = 1
	}
	if hop == 0 {
		hop = 0.016
	}
	if m.rate < 500 || m.rate > 96_000 || m.bands < 4 || m.bands > 256 || !(seconds > 0.05 && seconds <= 60) || !(hop >= 0.002 && hop <= 1) {
		return nil, fmt.Errorf("wav: rate %d, mels %d, seconds %v, hop %v: want 500 to 96000, 4 to 256, 0.05 to 60, 0.002 to 1", m.rate, m.bands, seconds, hop)
	}
	m.hop = max(1, int(hop*float64(m.rate)))
	m.frame = 1 << bits.Len(uint(2*m.hop-1)) // a power of two, at least two hops
	m.frames = max(4, int(seconds*float64(m.rate))/m.hop)
	m.tables()
	return m, nil
}

func (m *mel) tables() {
	n := m.frame
	for i := range n {
		m.window = append(m.window, 0.5-float64(0.5*cosTurn(float64(i)/float64(n))))
		m.cos = append(m.cos, cosTurn(float64(i)/float64(n)))
		m.sin = append(m.sin, cosTurn(float64(i)/float64(n)-0.25))
	}
	scale := func(f float64) float64 { return num.Log(1 + f/700) }
	top := scale(float64(m.rate) / 2)
	edge := func(i int) float64 { // bin of the i-th of bands+2 edges
		want, lo, hi := top*float64(i)/float64(m.bands+1), 0.0, float64(m.rate)/2
		for range 60 {
			if mid := (lo + hi) / 2; scale(mid) < want {
				lo = mid
			} else {
				hi = mid
			}
		}
		return lo / float64(m.rate) * float64(n)
	}
	for b := range m.bands {
		l, c, r := edge(b), edge(b+1), edge(b+2)
		f := melFilter{first: int(math.Ceil(l))}
		for k := f.first; k <= min(n/2, int(r)); k++ {
			x := float64(k)
			f.weights = append(f.weights, max(0, min((x-l)/max(c-l, 1e-9), (r-x)/max(r-c, 1e-9))))
		}
		if len(f.weights) == 0 { // a band between two bins
			f = melFilter{min(n/2, int(c+0.5)), []float64{1}}
		}
		m.filters = append(m.filters, f)
	}
}

// cosTurn is cos(2 pi x) for x in [-1, 1].
func cosTurn(x float64) float64 {
	x = 2 * math.Abs(x)
	if x > 1 {
		x = 2 - x
	}
	return num.CosPi(x)
}

// apply returns the log energies of the middle of a clip, filled up with silence at
// its ends.
func (m *mel) apply(s sound) []float32 {
	x := s.resample(m.rate).samples
	need := m.frames * m.hop
	start := (len(x) - need) / 2
	out := make([]float32, 0, m.frames*m.bands)
	re, im := make([]float64, m.frame), make([]float64, m.frame)
	for f := range m.frames {
		for i := range re {
			re[i], im[i] = 0, 0
			if at := start + f*m.hop + i - m.frame/2 + m.hop/2; at >= 0 && at < len(x) {
				re[i] = float64(x[at] * m.window[i])
			}
		}
		m.fft(re, im)
		for _, t := range m.filters {
			e := 0.0
			for k, w := range t.weights {
				p := float64(re[t.first+k]*re[t.first+k]) + float64(im[t.first+k]*im[t.first+k])
				e += float64(w * p)
			}
			out = append(out, float32(num.Log(e+1e-6)))
		}
	}
	return out
}

// fft is the radix-2 transform in place (Cooley and Tukey 1965).
func (m *mel) fft(re, im []float64) {
	n := len(re)
	for i, j := 1, 0; i < n; i++ {
		bit := n >> 1
		for ; j&bit != 0; bit >>= 1 {
			j ^= bit
		}
		if j ^= bit; i < j {
			re[i], re[j], im[i], im[j] = re[j], re[i], im[j], im[i]
		}
	}
	for size := 2; size <= n; size *= 2 {
		step := n / size
		for lo := 0; lo < n; lo += size {
			for k := range size / 2 {
				a, b := lo+k, lo+k+size/2
				c, s := m.cos[k*step], -m.sin[k*step]
				xr := float64(re[b]*c) - float64(im[b]*s)
				xi := float64(re[b]*s) + float64(im[b]*c)
				re[b], im[b] = re[a]-xr, im[a]-xi
				re[a], im[a] = re[a]+xr, im[a]+xi
			}
		}
	}
}

// openSounds reads a folder of WAV files as log-mel images.
func openSounds(d Spec) (Set, error) {
	m, err := newMel(d)
	if err != nil {
		return nil, err
	}
	if d.Mask < 0 || d.Mask >= min(m.bands, m.frames) || d.Crop < 0 || d.Crop >= m.frames {
		return nil, fmt.Errorf("wav: mask %d, crop %d, want 0 to below %d bands and %d frames", d.Mask, d.Crop, m.bands, m.frames)
	}
	l := newLabelled("wav", Form{Kind: "image", Dims: []int{m.frames, m.bands, 1}})
	l.columns = m.bands
	l.augment = func(x []float32, key uint64) { augmentSound(x, m.frames, m.bands, d, key) }
	return readFiles(l, d, []string{".wav"}, func(_ string, b []byte) error {
		s, err := decodeWAV(b)
		if err == nil {
			l.values = append(l.values, m.apply(s)...)
		}
		return err
	}, 4)
}

// augmentSound moves a clip in time and in pitch, changes its loudness, and blanks a
// stretch of bands and of frames (Park et al., "SpecAugment", 2019).
func augmentSound(x []float32, frames, bands int, d Spec, key uint64) {
	if d.Crop > 0 {
		dy, _ := moves(key, d.Crop)
		_, dx := moves(key, 1)
		shift(x, frames, bands, 1, dy, dx, x[0])
	}
	if d.Jitter > 0 {
		lift := float32((float32(Mix(key+6)>>40)/(1<<23) - 1) * float32(d.Jitter) / 100)
		for i := range x {
			x[i] += lift
		}
	}
	if d.Mask > 0 {
		f, t := int(Mix(key+7)%uint64(d.Mask+1)), int(Mix(key+8)%uint64(d.Mask+1))
		f0, t0 := int(Mix(key+9)%uint64(bands-f+1)), int(Mix(key+10)%uint64(frames-t+1))
		for i := range x {
			if b, r := i%bands, i/bands; b >= f0 && b < f0+f || r >= t0 && r < t0+t {
				x[i] = 0
			}
		}
	}
}

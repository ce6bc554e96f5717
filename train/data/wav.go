package data

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

// sound is a clip of one channel, samples about -1 to 1.
type sound struct {
	rate    int
	samples []float64
}

// Limits of a sound file.
const (
	maxRate     = 768_000
	maxChannels = 64
)

// wavFormat is what a fmt chunk says.
type wavFormat struct {
	tag, channels, rate, align, bits int
	order                            binary.ByteOrder
}

// decodeWAV reads RIFF and RIFX files: PCM of 1 to 64 bits, float of 32 and 64, and
// mu-law, with WAVE_FORMAT_EXTENSIBLE; channels are averaged. A data chunk that
// claims more than the file has is cut to whole frames when the file was cut in
// it, as recorders leave behind that lost power; a file without any frame is an error.
func decodeWAV(b []byte) (sound, error) {
	var f wavFormat
	switch {
	case len(b) < 12 || string(b[8:12]) != "WAVE":
		return sound{}, fmt.Errorf("it is no WAVE file: %d bytes that start with %q", len(b), b[:min(4, len(b))])
	case string(b[:4]) == "RIFF":
		f.order = binary.LittleEndian
	case string(b[:4]) == "RIFX":
		f.order = binary.BigEndian
	default:
		return sound{}, fmt.Errorf("it starts with %q, want RIFF or RIFX", b[:4])
	}
	for at := 12; at+8 <= len(b); {
		id, size := string(b[at:at+4]), int64(f.order.Uint32(b[at+4:]))
		body := b[at+8:]
		if size < int64(len(body)) {
			body = body[:size]
		}
		switch id {
		case "fmt ":
			if err := f.read(body); err != nil {
				return sound{}, err
			}
		case "data":
			if f.channels == 0 {
				return sound{}, fmt.Errorf("the data chunk comes before the format")
			}
			return f.decode(body)
		}
		at += 8 + int(min(size+size&1, int64(len(b))))
	}
	return sound{}, fmt.Errorf("it has no data chunk")
}

// Format tags.
const (
	wavPCM        = 1
	wavFloat      = 3
	wavMuLaw      = 7
	wavExtensible = 0xFFFE
)

func (f *wavFormat) read(b []byte) error {
	if len(b) < 16 {
		return fmt.Errorf("the format chunk has %d bytes, want 16", len(b))
	}
	u16 := func(at int) int { return int(f.order.Uint16(b[at:])) }
	f.tag, f.channels, f.align, f.bits = u16(0), u16(2), u16(12), u16(14)
	rate := f.order.Uint32(b[4:])
	if f.tag == wavExtensible {
		if len(b) < 40 {
			return fmt.Errorf("the extended format chunk has %d bytes, want 40", len(b))
		}
		f.tag = int(f.order.Uint32(b[24:]) & 0xFFFF) // the first field of the sub-format's GUID
	}
	width := (f.bits + 7) / 8
	switch {
	case f.channels < 1 || f.channels > maxChannels:
		return fmt.Errorf("it has %d channels, want 1 to %d", f.channels, maxChannels)
	case rate < 100 || rate > maxRate:
		return fmt.Errorf("its rate is %d Hz, want 100 to %d", rate, maxRate)
	case f.bits < 1 || f.bits > 64:
		return fmt.Errorf("its samples have %d bits, want 1 to 64", f.bits)
	case f.tag == wavFloat && f.bits != 32 && f.bits != 64, f.tag == wavMuLaw && f.bits != 8:
		return fmt.Errorf("its format %d has samples of %d bits", f.tag, f.bits)
	case f.tag != wavPCM && f.tag != wavFloat && f.tag != wavMuLaw:
		return fmt.Errorf("its format is %d, want PCM (1), float (3) or mu-law (7)", f.tag)
	case f.align != f.channels*width:
		return fmt.Errorf("a frame of %d channels of %d bits has %d bytes, the header says %d", f.channels, f.bits, f.channels*width, f.align)
	}
	f.rate = int(rate)
	return nil
}

func (f *wavFormat) decode(b []byte) (sound, error) {
	n, width := len(b)/f.align, (f.bits+7)/8
	if n == 0 {
		return sound{}, fmt.Errorf("its data chunk holds no whole frame: %d bytes of %d a frame", len(b), f.align)
	}
	s := sound{f.rate, make([]float64, n)}
	for i := range n {
		sum := 0.0
		for c := range f.channels {
			v := f.value(b[i*f.align+c*width:][:width])
			if !(math.Abs(v) <= 1e6) {
				return sound{}, fmt.Errorf("sample %d is %v", i, v)
			}
			sum += v
		}
		s.samples[i] = sum / float64(f.channels)
	}
	return s, nil
}

// value decodes one sample. Integers of up to 8 bits are unsigned; odd widths fill
// the high bits of their bytes.
func (f *wavFormat) value(b []byte) float64 {
	u := uint64(0)
	for i := range b {
		k := i
		if f.order == binary.LittleEndian {
			k = len(b) - 1 - i
		}
		u = u<<8 | uint64(b[k])
	}
	switch {
	case f.tag == wavMuLaw:
		return muLaw(byte(u))
	case f.tag == wavFloat && f.bits == 32:
		return float64(math.Float32frombits(uint32(u)))
	case f.tag == wavFloat:
		return math.Float64frombits(u)
	case len(b) == 1:
		return (float64(u) - 128) / 128
	}
	return float64(int64(u<<(64-8*len(b)))) / (1 << 63)
}

// muLaw is ITU-T G.711.
func muLaw(b byte) float64 {
	b = ^b
	t := (int(b&15)<<3 + 0x84) << (b >> 4 & 7)
	v := float64(t-0x84) / 32768
	if b&0x80 != 0 {
		return -v
	}
	return v
}

// resampleTaps on each side of a windowed-sinc filter.
const resampleTaps = 16

// resample changes the rate by a Hann-windowed sinc, cut off at the lower of both
// Nyquist rates.
func (s sound) resample(rate int) sound {
	if rate == s.rate {
		return s
	}
	ratio := float64(s.rate) / float64(rate)
	cut := min(1, 1/ratio)
	half := float64(resampleTaps) / cut
	out := sound{rate, make([]float64, max(1, int(float64(len(s.samples))/ratio)))}
	for i := range out.samples {
		at := float64(float64(i) * ratio)
		sum, weight := 0.0, 0.0
		for j := max(0, int(math.Ceil(at-half))); j <= min(len(s.samples)-1, int(at+half)); j++ {
			d := float64(j) - at
			w := float64(sinc(float64(d*cut)) * float64(0.5+float64(0.5*num.CosPi(math.Abs(d)/half))))
			sum += float64(w * s.samples[j])
			weight += w
		}
		if weight != 0 {
			out.samples[i] = sum / weight
		}
	}
	return out
}

// sinc is sin(pi x)/(pi x), by num's cosine.
func sinc(x float64) float64 {
	x = math.Abs(x)
	if x < 1e-9 {
		return 1
	}
	y := x - 2*math.Floor(x/2) // sin has period 2
	y -= 0.5                   // sin(pi y) = cos(pi (y - 1/2))
	if y < 0 {
		y = -y
	}
	c := 0.0
	if y <= 1 {
		c = num.CosPi(y)
	} else {
		c = num.CosPi(2 - y)
	}
	return c / float64(math.Pi*x)
}

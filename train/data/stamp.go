package data

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stampLayouts are the forms of a time that say which part is which.
var stampLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04",
	"2006-01-02T15:04", "2006-01-02", "2006/01/02 15:04:05", "2006/01/02 15:04", "2006/01/02", "02.01.2006 15:04:05", "02.01.2006 15:04", "02.01.2006",
	time.RFC1123Z, time.RFC1123,
}

var slashed = regexp.MustCompile(`^(\d{1,2})/(\d{1,2})/(\d{4})(.*)$`)

// stamps reads times in mixed forms: ISO, epochs in seconds or milliseconds, and
// dates with slashes, whose order (day or month first) must show in at least one of
// the file's. A time without a zone is UTC.
type stamps struct {
	dayFirst, monthFirst bool // one was seen that can be read in this way only
}

// learn looks for dates with slashes that can be read in one way only.
func (s *stamps) learn(text string) {
	m := slashed.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return
	}
	a, _ := strconv.Atoi(m[1])
	b, _ := strconv.Atoi(m[2])
	s.dayFirst, s.monthFirst = s.dayFirst || a > 12, s.monthFirst || b > 12
}

func (s *stamps) parse(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case n >= 1e8 && n < 1e10:
			return time.Unix(int64(n), 0).UTC(), nil
		case n >= 1e11 && n < 1e13:
			return time.UnixMilli(int64(n)).UTC(), nil
		}
		return time.Time{}, fmt.Errorf("%q is no time: as seconds or milliseconds since 1970 it is far from now", text)
	}
	if m := slashed.FindStringSubmatch(text); m != nil {
		if s.dayFirst == s.monthFirst {
			return time.Time{}, fmt.Errorf("%q may be day or month first, and no date of the file decides it", text)
		}
		d, mo := m[1], m[2]
		if s.monthFirst {
			d, mo = mo, d
		}
		text = fmt.Sprintf("%s-%02s-%02s%s", m[3], mo, d, m[4])
	}
	for _, l := range stampLayouts {
		if t, err := time.Parse(l, text); err == nil {
			if y := t.Year(); y < 1970 || y > 2200 {
				return time.Time{}, fmt.Errorf("%q is in year %d, want 1970 to 2200", text, y)
			}
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time that hived can read", text)
}

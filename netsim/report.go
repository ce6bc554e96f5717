package netsim

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed report.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// page is what the report's template shows.
type page struct {
	Result    *Result
	Loss      chart
	Bytes     chart
	Waterfall []bar
	Rows      []row // a peer each
	Cell      float64
	Width     float64
	Height    float64
	Events    []Event // those about peers, not rounds
	Cut       int     // events that are not shown
	Most      string  // longest round
}

// chart is a line in a box of 640 x 160.
type chart struct {
	Points   string
	Min, Max string
	Last     string
}

// bar is a round in the waterfall.
type bar struct {
	Round   uint64
	Took    int64
	X, W    float64
	Y, Top  float64 // height, and where it begins
	Counted int
	Lost    string
}

// row is what became of a peer's work, round by round.
type row struct {
	Peer  int
	Y     float64
	Cells []cell
}

type cell struct {
	X     float64
	Class string
	Title string
}

const (
	chartW, chartH = 640.0, 160.0
	mapW           = 900.0
	maxRows        = 64   // peers in the map
	maxRounds      = 2000 // rounds in waterfall and map: the newest
	maxNotes       = 500
)

// WriteReport makes report.html in an output directory: one file that needs
// nothing else.
func WriteReport(dir string, r *Result) error {
	p := &page{Result: r}
	var rounds []Event
	err := ReadEvents(filepath.Join(dir, EventsFile), func(e Event) error {
		switch e.Kind {
		case "decided":
			if rounds = append(rounds, e); len(rounds) > 2*maxRounds {
				rounds = append(rounds[:0], rounds[len(rounds)-maxRounds:]...)
			}
		case "version":
		default:
			if len(p.Events) < maxNotes {
				p.Events = append(p.Events, e)
			} else {
				p.Cut++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.draw(rounds[max(0, len(rounds)-maxRounds):])
	f, err := os.Create(filepath.Join(dir, ReportFile))
	if err != nil {
		return err
	}
	if err := reportTemplate.Execute(f, p); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", ReportFile, err)
	}
	return f.Close()
}

func (p *page) draw(rounds []Event) {
	var loss, bytes []float64
	most := int64(1)
	for _, e := range rounds {
		if e.Round > 0 {
			loss = append(loss, e.Loss)
			bytes = append(bytes, float64(e.Payload+e.Control))
		}
		most = max(most, e.TookMs)
	}
	p.Loss, p.Bytes = line(loss), line(bytes)
	p.Most = fmt.Sprintf("%.1f s", float64(most)/1000)
	p.Cell = mapW / float64(max(1, len(rounds)))
	for i, e := range rounds {
		h := 120 * float64(e.TookMs) / float64(most)
		p.Waterfall = append(p.Waterfall, bar{Round: e.Round, Took: e.TookMs, X: float64(i) * p.Cell, W: max(0.5, p.Cell-0.5), Y: h, Top: 122 - h, Counted: len(e.Counted), Lost: strings.Join(e.Lost, " ")})
	}
	p.rows(rounds)
	p.Width, p.Height = mapW, float64(len(p.Rows))*10
}

// rows fills the map of who counted in which round.
func (p *page) rows(rounds []Event) {
	at := map[int]int{}
	rowOf := func(peer int) *row {
		i, ok := at[peer]
		if !ok {
			if len(p.Rows) == maxRows {
				return nil
			}
			i = len(p.Rows)
			at[peer] = i
			p.Rows = append(p.Rows, row{Peer: peer, Y: float64(i) * 10})
		}
		return &p.Rows[i]
	}
	for i, e := range rounds {
		x := float64(i) * p.Cell
		for _, peer := range e.Counted {
			if r := rowOf(peer); r != nil {
				r.Cells = append(r.Cells, cell{x, "counted", fmt.Sprintf("round %d: peer %d counted", e.Round, peer)})
			}
		}
		for _, l := range e.Lost {
			who, what, _ := strings.Cut(l, ":")
			peer, err := strconv.Atoi(who)
			if err != nil {
				continue
			}
			if r := rowOf(peer); r != nil {
				r.Cells = append(r.Cells, cell{x, what, fmt.Sprintf("round %d: peer %d %s", e.Round, peer, what)})
			}
		}
	}
}

// line scales values into the box of a chart.
func line(v []float64) chart {
	if len(v) == 0 {
		return chart{Min: "-", Max: "-", Last: "-"}
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range v {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	if !(hi > lo) {
		hi = lo + 1
	}
	var b strings.Builder
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", chartW*float64(i)/float64(max(1, len(v)-1)), chartH-chartH*(x-lo)/(hi-lo))
	}
	return chart{Points: b.String(), Min: short(lo), Max: short(hi), Last: short(v[len(v)-1])}
}

// short is a number for people.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e9:
		return fmt.Sprintf("%.2f G", x/1e9)
	case a >= 1e6:
		return fmt.Sprintf("%.2f M", x/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.1f k", x/1e3)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

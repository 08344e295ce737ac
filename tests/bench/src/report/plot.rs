//! Lines over two axes, as SVG.

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

const SIZE: (u32, u32) = (800, 480);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Logarithmic,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The file's name, without what it ends with.
    pub file: &'static str,
    pub title: &'static str,
    pub x: (&'static str, Scale),
    pub y: (&'static str, Scale),
    pub lines: Vec<Line>,
}

impl Plot {
    pub fn svg(&self) -> Result<String> {
        let mut text = String::new();
        self.draw(&mut text)
            .map_err(|error| anyhow!("cannot draw {}: {error}", self.file))?;
        Ok(text)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let (x, y) = (
            self.range(self.x.1, |it| it.0),
            self.range(self.y.1, |it| it.1),
        );
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root);
        chart
            .caption(self.title, ("sans-serif", 20))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(72);
        match (self.x.1, self.y.1) {
            (Scale::Linear, Scale::Linear) => {
                self.lines_on(chart.build_cartesian_2d(x.0..x.1, y.0..y.1)?)?;
            }
            (Scale::Linear, Scale::Logarithmic) => {
                self.lines_on(chart.build_cartesian_2d(x.0..x.1, (y.0..y.1).log_scale())?)?;
            }
            (Scale::Logarithmic, Scale::Linear) => {
                self.lines_on(chart.build_cartesian_2d((x.0..x.1).log_scale(), y.0..y.1)?)?;
            }
            (Scale::Logarithmic, Scale::Logarithmic) => {
                let (x, y) = ((x.0..x.1).log_scale(), (y.0..y.1).log_scale());
                self.lines_on(chart.build_cartesian_2d(x, y)?)?;
            }
        }
        root.present()?;
        Ok(())
    }

    fn lines_on<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mesh = &mut chart.configure_mesh();
        mesh.x_desc(self.x.0).y_desc(self.y.0).draw()?;
        for (number, line) in self.lines.iter().enumerate() {
            let color = Palette99::pick(number).to_rgba();
            let points = line.points.iter().copied();
            chart
                .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
            chart.draw_series(points.map(|point| Circle::new(point, 3, color.filled())))?;
        }
        let mut labels = chart.configure_series_labels();
        labels.background_style(WHITE.mix(0.8)).border_style(BLACK);
        labels.draw()?;
        Ok(())
    }

    /// From nothing on if the axis has a nothing.
    fn range(&self, scale: Scale, of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
        let values = || self.lines.iter().flat_map(|line| &line.points).map(of);
        let most = values().fold(f64::MIN_POSITIVE, f64::max) * 1.1;
        let least = match scale {
            Scale::Linear => 0.0,
            Scale::Logarithmic => values().fold(most, f64::min) / 1.1,
        };
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(scale: Scale) -> Plot {
        Plot {
            file: "rates",
            title: "Rates",
            x: ("tasks", scale),
            y: ("records/s", scale),
            lines: vec![Line {
                name: "Sluice".to_owned(),
                points: vec![(1.0, 10.0), (200.0, 900.0)],
            }],
        }
    }

    #[test]
    fn lines_axes_and_names_are_drawn_on_both_scales() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = plot(scale).svg().unwrap();
            for part in ["<svg", "Rates", "tasks", "records/s", "Sluice", "<polyline"] {
                assert!(svg.contains(part), "{part} is not in {svg}");
            }
        }
    }

    #[test]
    fn a_linear_axis_begins_at_nothing() {
        assert!(plot(Scale::Linear).range(Scale::Linear, |it| it.1).0 < f64::EPSILON);
        assert!(plot(Scale::Linear).range(Scale::Logarithmic, |it| it.1).0 > 9.0);
    }
}

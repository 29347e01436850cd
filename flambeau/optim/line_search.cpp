#include "flambeau/optim/line_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace flambeau::torch::optim {
namespace {

// How much the loss must fall for its slope, and how flat it must become.
constexpr double decrease = 1e-4, curvature = 0.9;

// Where the cubic through two points with their slopes is least, within bounds.
double cubic_minimum(const LinePoint& one, const LinePoint& other, double low, double high) {
  const auto& [left, right] =
      one.distance <= other.distance ? std::tie(one, other) : std::tie(other, one);
  const double d1 =
      left.slope + right.slope - 3 * (one.loss - other.loss) / (one.distance - other.distance);
  const double discriminant = d1 * d1 - one.slope * other.slope;
  if (discriminant < 0) return (low + high) / 2;
  const double d2 = std::sqrt(discriminant);
  const double ratio = (right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2);
  const double at = right.distance - (right.distance - left.distance) * ratio;
  return std::min(std::max(at, low), high);
}

class Search {
 public:
  Search(const Evaluate& at, const Tensor& direction, const LinePoint& start)
      : at_(at), direction_(direction), start_(start) {}

  LineSearch run(double distance, double tolerance_change, int64_t max_steps) {
    const int64_t steps = find_bracket(distance, max_steps);
    if (!found_) narrow(max_steps - steps, tolerance_change);
    return {found_ || low_.loss <= high_.loss ? low_ : high_, evaluations_};
  }

 private:
  LinePoint point(double distance) {
    ++evaluations_;
    auto [loss, gradient] = at_(distance);
    gradient = gradient.clone();
    const double slope = gradient.dot(direction_).item<double>();
    return {distance, loss, gradient, slope};
  }
  [[nodiscard]] bool is_too_high(const LinePoint& p) const {
    return p.loss > start_.loss + decrease * p.distance * start_.slope;
  }
  [[nodiscard]] bool is_flat(const LinePoint& p) const {
    return std::abs(p.slope) <= -curvature * start_.slope;
  }

  // Goes further out until a good point lies between two, or is found itself.
  int64_t find_bracket(double distance, int64_t max_steps) {
    LinePoint previous = start_, now = point(distance);
    for (int64_t steps = 0; steps < max_steps; ++steps) {
      if (is_too_high(now) || (steps > 1 && now.loss >= previous.loss) ||
          (!is_flat(now) && now.slope >= 0)) {
        low_ = previous, high_ = now;
        return steps;
      }
      if (is_flat(now)) {
        low_ = now, found_ = true;
        return steps;
      }
      const double nearest = now.distance + 0.01 * (now.distance - previous.distance);
      const double further = cubic_minimum(previous, now, nearest, now.distance * 10);
      previous = std::exchange(now, point(further));
    }
    low_ = start_, high_ = now;
    return max_steps;
  }

  // Shrinks the bracket, whose lower point is `low_`, until a point is good.
  void narrow(int64_t max_steps, double tolerance_change) {
    const double largest_move = direction_.abs().max().item<double>();
    bool made_little_progress = false;
    if (high_.loss < low_.loss) std::swap(low_, high_);
    for (int64_t i = 0; i < max_steps; ++i) {
      if (std::abs(high_.distance - low_.distance) * largest_move < tolerance_change) return;
      const auto [near, far] = std::minmax(low_.distance, high_.distance);
      double t = cubic_minimum(low_, high_, near, far);
      const double margin = 0.1 * (far - near);
      // Twice in a row close to an end, or beyond it: step away from that end.
      if (std::min(far - t, t - near) < margin) {
        if (made_little_progress || t >= far || t <= near) {
          t = std::abs(t - far) < std::abs(t - near) ? far - margin : near + margin;
          made_little_progress = false;
        } else {
          made_little_progress = true;
        }
      } else {
        made_little_progress = false;
      }
      const LinePoint now = point(t);
      if (is_too_high(now) || now.loss >= low_.loss) {
        high_ = now;
        if (high_.loss < low_.loss) std::swap(low_, high_);
        continue;
      }
      const bool good = is_flat(now);
      if (!good && now.slope * (high_.distance - low_.distance) >= 0) high_ = low_;
      low_ = now;
      if (good) return;
    }
  }

  const Evaluate& at_;
  const Tensor& direction_;
  LinePoint start_, low_, high_;
  bool found_ = false;
  int64_t evaluations_ = 0;
};

}  // namespace

LineSearch strong_wolfe(const Evaluate& at, double distance, const Tensor& direction,
                        const LinePoint& start, double tolerance_change, int64_t max_steps) {
  return Search(at, direction, start).run(distance, tolerance_change, max_steps);
}

}  // namespace flambeau::torch::optim
